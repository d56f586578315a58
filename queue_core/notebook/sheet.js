// Draws the figures of a report in the colours of its page. Text from tasks reaches Plotly only, escaped.
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function themed(layout) {
  const style = getComputedStyle(document.body);
  const colour = (name) => style.getPropertyValue(name).trim();
  const font = { ...layout.font, color: colour("--text"), family: style.fontFamily };
  const painted = {
    ...layout,
    template: {},
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font,
    hoverlabel: { ...layout.hoverlabel, bgcolor: colour("--box"), bordercolor: colour("--line"), font },
  };
  for (const axis of Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))) {
    painted[axis] = { ...layout[axis], gridcolor: colour("--line"), linecolor: colour("--line") };
  }
  return painted;
}

function draw() {
  for (const node of document.querySelectorAll(".figure")) {
    const figure = JSON.parse(node.nextElementSibling.textContent);
    Plotly.react(node, figure.data, themed(figure.layout), { displayModeBar: false, responsive: true });
  }
}

draw();
dark.addEventListener("change", draw);

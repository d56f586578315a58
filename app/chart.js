// Draws a figure with Plotly.react on a node that outlives refreshes. Text from tasks reaches Plotly only, escaped.
const libraries = (window.queueCoreLibraries ??= {});

function load(url) {
  libraries[url] ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      delete libraries[url]; // the next refresh tries again
      reject(new Error(`could not load ${url}`));
    };
    document.head.appendChild(script);
  });
  return libraries[url];
}

const LEAST = 60; // pixels: a container that opens or goes away is narrower for a moment, and Plotly fails to place text
const NARROW = 400; // pixels: below, as on a phone, letters and margins are smaller

function themed(layout, node) {
  const scale = node.clientWidth && node.clientWidth < NARROW ? 0.75 : 1;
  const style = getComputedStyle(node);
  const colour = (name) => style.getPropertyValue(name).trim();
  const text = colour("--st-text-color");
  const border = colour("--st-border-color");
  const painted = {
    ...layout,
    template: {},
    autosize: true,
    uirevision: "kept",
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { ...layout.font, size: scale * layout.font.size, color: text, family: style.fontFamily },
    margin: { ...layout.margin, r: scale * layout.margin.r },
    hoverlabel: {
      ...layout.hoverlabel,
      bgcolor: colour("--st-secondary-background-color"),
      bordercolor: border,
      font: { color: text, family: style.fontFamily },
    },
  };
  for (const axis of ["xaxis", "yaxis"]) {
    const { title, tickfont } = layout[axis];
    painted[axis] = {
      ...layout[axis],
      gridcolor: border,
      linecolor: border,
      title: { ...title, font: { ...title?.font, size: scale * (title?.font?.size ?? layout.font.size) } },
      tickfont: { ...tickfont, size: scale * (tickfont?.size ?? layout.font.size) },
    };
  }
  return painted;
}

function draw(node) {
  const data = node.latest;
  load(data.library).then(
    (Plotly) => {
      const over = node.latest !== data || !node.isConnected; // a newer one came meanwhile
      if (over || node.clientWidth < LEAST) return; // it is drawn when it has got room
      const figure = JSON.parse(data.figure);
      const config = { displayModeBar: false, doubleClick: "reset" };
      return Plotly.react(node, figure.data, themed(figure.layout, node), config).then(() => {
        node.drawn = data;
      });
    },
    (error) => {
      node.textContent = `The chart cannot be drawn: ${error.message}`;
    },
  );
}

function fit(node) {
  if (node.clientWidth < LEAST) return;
  if (node.drawn === node.latest) window.Plotly.Plots.resize(node);
  else draw(node);
}

export default function ({ data, parentElement }) {
  let node = parentElement.querySelector(".queue-core-chart");
  if (!node) {
    node = document.createElement("div");
    node.className = "queue-core-chart";
    node.setAttribute("role", "img");
    parentElement.appendChild(node);
    new ResizeObserver(() => fit(node)).observe(node);
  }
  node.setAttribute("aria-label", data.alt);
  node.style.height = `${data.height}px`;
  node.latest = data;
  draw(node);
}

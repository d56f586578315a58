"""A session as Streamlit's own frontend has it, without the frontend: whatever it could send can be sent."""

import json
from typing import Any, Self

from google.protobuf.message import Message
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from viewing import Viewer


class Session(Viewer):
    """A session that has drawn a page, with the ids of all widgets that the server has told it, by their keys."""

    def __init__(self, address: str, page: str = "", **query: str) -> None:
        super().__init__(address, page, **query)
        self.widgets: dict[str, str] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self.load()
        return self

    def _take(self, told: ForwardMsg) -> bool:
        self._note(told.delta)
        return super()._take(told)

    def _note(self, message: Message) -> None:
        """Ids end with the key that the page gave."""
        for kind, value in message.ListFields():
            if kind.name == "id" and isinstance(value, str) and value.startswith("$$ID-"):
                self.widgets[value.split("-", 2)[2]] = value
            elif isinstance(value, Message):
                self._note(value)

    def id(self, key: str) -> str:
        """The id of the newest widget with this key, or whose key begins so; a made-up one when there is none."""
        told = [id for name, id in self.widgets.items() if name == key or name.startswith(f"{key}-")]
        return told[-1] if told else f"$$ID-{'0' * 32}-{key}"

    def press(self, key: str, *states: WidgetState) -> None:
        """Say that this button was clicked, whether it can be or not."""
        self.load([*states, WidgetState(id=self.id(key), trigger_value=True)])

    def rows(self, key: str, *rows: int) -> WidgetState:
        """That these rows of a table are selected."""
        chosen: dict[str, Any] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
        return WidgetState(id=self.id(key), string_value=json.dumps(chosen))

    def text(self, key: str, text: str) -> WidgetState:
        """That this was written into a box."""
        return WidgetState(id=self.id(key), string_value=text)

    def number(self, key: str, number: int) -> WidgetState:
        """That this number was set."""
        return WidgetState(id=self.id(key), int_value=number)

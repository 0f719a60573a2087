"""Conversions for tests of what is made of them, and what a refused value was told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.runtime.typing.mismatch import Mismatch, must


def integer(value: Any) -> Any:
    if type(value) is int:
        return value
    raise must("be an integer", value)


def doubled(value: Any) -> Any:
    return integer(value) * 2


def told(convert: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(Mismatch) as caught:
        convert(*args)
    return str(caught.value)

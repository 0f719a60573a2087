"""What is started: once for a class of tests, or for each. The class says what, by its `start`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.places import Place

pytest.register_assert_rewrite("deploy.checks", "deploy.wire")


@pytest.fixture(scope="class")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with request.cls.start(tmp_path_factory.mktemp("deployed")) as place:
        yield place


@pytest.fixture
def own_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with request.cls.start(tmp_path / "deployed") as place:
        yield place

"""docs/deployment.rst, waitress: the script of docs/examples/deploy."""

from deploy.checks import Checks, Ends
from deploy.places import waitress


class TestWaitress(Checks):
    start = staticmethod(waitress)
    can_end_early = False


class TestItsEnd(Ends):
    start = staticmethod(waitress)

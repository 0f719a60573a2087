"""runtime/digests: the digests that the standards define, and nothing loaded before the first."""

import subprocess
import sys

from peers import ENV

from mcp_ref.runtime.digests import is_same, mac, sha256


def test_a_digest_is_the_one_of_its_standard():
    """FIPS 180-4, the example of one block; RFC 4231, test case 2."""
    assert sha256(b"abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    data = b"what do ya want for nothing?"
    assert mac(b"Jefe", data).hex() == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


def test_only_equal_digests_are_the_same():
    assert is_same(sha256(b"a"), sha256(b"a"))
    assert not is_same(sha256(b"a"), sha256(b"b"))


def test_openssl_is_not_loaded_by_the_import_of_the_package():
    """A host waits for that with each server that it starts."""
    code = "import sys, mcp_ref; print({'_hashlib', 'hmac', 'random', 'ssl'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr

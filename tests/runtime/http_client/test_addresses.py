"""runtime/http_client/addresses: whom an address reaches, whatever it hides."""

import pytest

from mcp_ref.runtime.http_client.addresses import Reach, is_loopback, reach

LOOPBACK = [
    "127.0.0.1",
    "127.1.2.3",
    "::1",
    "::ffff:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::",
    "::127.0.0.1",
]
LINK_LOCAL = [
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::f7f7:f7f7",
    "2001:db8::5efe:169.254.169.254",
]
PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "fc00::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "2002:c0a8:101::1",
]
UNUSABLE = ["0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1"]
PUBLIC = ["93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"]
KINDS = {
    Reach.LOOPBACK: LOOPBACK,
    Reach.LINK_LOCAL: LINK_LOCAL,
    Reach.PRIVATE: PRIVATE,
    Reach.UNUSABLE: UNUSABLE,
    Reach.PUBLIC: PUBLIC,
}


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for kind, texts in KINDS.items() for text in texts])
def test_an_address_reaches_whom_the_address_within_it_reaches(text, kind):
    assert reach(text) is kind


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "1.2.3.4%5"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="address"):
        reach(text)


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("[::1]", True),
        ("::1", True),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("127.0.0.1%2eexample.com", False),
        ("::1%lo", True),
        ("example.com", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_a_host_is_this_machine(host, is_one):
    assert is_loopback(host) is is_one

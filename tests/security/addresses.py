"""Spellings of addresses that lead inside, or nowhere."""

from __future__ import annotations

# What stands between the scheme and the path; `{port}` is where the listener is. All lead inside, or nowhere.
AUTHORITIES = [
    # plainly
    *("127.0.0.1:{port}", "127.9.9.9:{port}", "0.0.0.0:{port}", "[::1]:{port}", "[::]:{port}", "localhost:{port}"),
    *("10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "224.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "192.0.2.1", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]"),
    # names that some resolvers answer by themselves
    *("LOCALHOST:{port}", "localhost.:{port}", "x.localhost:{port}", "a.b.localhost:{port}", "localhost.localdomain"),
    *("printer.local", "metadata.google.internal", "ip6-localhost:{port}"),
    # numbers in other spellings
    *("127.1:{port}", "127.0.1:{port}", "2130706433:{port}", "0x7f000001:{port}", "0x7f.0.0.1:{port}", "0x7f.1:{port}"),
    *("0177.0.0.1:{port}", "017700000001:{port}", "127.0.0.01:{port}", "0:{port}", "127.0.0.1.:{port}", "0x:{port}"),
    *("1.2.3.4.5", "00000177.1:{port}", "127.0.0.0x1:{port}", "4294967295", "127.0.0.1.127:{port}"),
    # IPv4 inside IPv6, and zones
    *("[::ffff:127.0.0.1]:{port}", "[::ffff:7f00:1]:{port}", "[::127.0.0.1]:{port}", "[64:ff9b::7f00:1]:{port}"),
    *("[0:0:0:0:0:0:0:1]:{port}", "[::1%25lo]:{port}", "[::1%lo]:{port}", "[fe80::1%25eth0]:{port}", "[2002:7f00:1::]"),
    # percent-encoded
    *("127%2e0.0.1:{port}", "127%2E0%2E0%2E1:{port}", "lo%63alhost:{port}", "%6cocalhost:{port}"),
    *("127.0.0.1%00.example.org:{port}", "127.0.0.1%0d%0aHost:{port}", "%5b::1%5d:{port}"),
    # other scripts that are mapped to these
    *(
        "１２７.0.0.1:{port}",
        "①②⑦.⓪.⓪.①:{port}",
        "127。0。0。1:{port}",
        "ⓛocalhost:{port}",
        "ＬＯＣＡＬＨＯＳＴ:{port}",
    ),
    # user info, and what looks like it
    *("user@127.0.0.1:{port}", "user:pw@127.0.0.1:{port}", "example.org@127.0.0.1:{port}", "a@b@127.0.0.1:{port}"),
    *("127.0.0.1:{port}\\@example.org", "example.org\\@127.0.0.1:{port}", "127.0.0.1:{port}\\.example.org"),
    # broken authorities
    *("", ":{port}", "127.0.0.1:80:{port}", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:+{port}"),
    *("[127.0.0.1]:{port}", "[v1.127]:{port}", "[::1:{port}", "::1:{port}", "[::1]x:{port}", "127.0.0.1,x:{port}"),
    *(" 127.0.0.1:{port}", "127.0.0.1 :{port}", "\t127.0.0.1:{port}", "127.0.0.1\n:{port}", "127.0.0.1;x:{port}"),
    # further spellings: other bases and marks in parts of a number, other wraps of IPv4, invisible characters
    *("127.0x0.0.1:{port}", "0b1111111.1:{port}", "127.0.0.1e0:{port}", "1_27.0.0.1:{port}", "+127.0.0.1:{port}"),
    *(
        "[::ffff:0:127.0.0.1]:{port}",
        "[::ffff:0x7f.1]:{port}",
        "[::ffff:127.1]:{port}",
        "[0::0::1]:{port}",
        "[]:{port}",
    ),
    *("[64:ff9b:1::7f00:1]:{port}", "[2001:0:7f00:1::]:{port}", "[fec0::1]:{port}", "[ff02::1]:{port}", "[::2]:{port}"),
    *("loc\u00adalhost:{port}", "local\u200bhost:{port}", "127.0.0.1\u200b:{port}", "\u2488\u2488:{port}"),
    *("١٢٧.٠.٠.١:{port}", "localhoſt:{port}", "127.0.0.1\u3002:{port}", "127．0．0．1:{port}", "ip6-loopback:{port}"),
    *("host.docker.internal:{port}", "kubernetes.default.svc.cluster.local", "x.home.arpa", "a.lan", "router.home"),
    *("127.0.0.1:{port}?@example.org", "127.0.0.1:{port}#@example.org", "127.0.0.1:{port}&@example.org"),
    *(
        "example.org:{port}@127.0.0.1:{port}",
        "[::1]@127.0.0.1:{port}",
        "127.0.0.1:٨٠",
        "127.0.0.1:0x50",
        "127.0.0.1:-1",
    ),
    *("$(id):{port}", "-oProxyCommand=x:{port}", "a..b:{port}", ".127.0.0.1:{port}", "exa mple.org", "x" * 64 + ".org"),
    # further wraps of IPv4, ranges that only some lists name, ends of ranges
    *("[64:ff9b::127.0.0.1]:{port}", "[64:ff9b::a00:1]", "[64:ff9b:1::1]", "[2002:a00:1::1]", "[2002:c0a8:1::]"),
    *("[2606:4700::5efe:127.0.0.1]:{port}", "[2606:4700::200:5efe:a00:1]:{port}"),
    *("[2001::1]", "[2001:0:53aa:64c:0:0:80ff:fffe]", "[2001:10::1]", "[2001:20::1]", "[2001:db8::1]", "[3fff::1]"),
    *("[100::1]", "[5f00::1]", "[fe80::ffff:127.0.0.1]", "[febf::1]", "[fdff:ffff::1]", "[ff05::2]", "[4000::1]"),
    *("[0000:0000:0000:0000:0000:ffff:7f00:0001]:{port}", "[::ffff:a00:1]", "[::ffff:169.254.169.254]", "[::7f00:1]"),
    *("0.1.2.3", "100.127.255.255", "100.100.100.200", "127.255.255.254:{port}", "169.254.0.1", "172.31.255.255"),
    *("192.0.0.192", "192.88.99.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "239.255.255.250", "240.0.0.1"),
    # more marks inside of a host
    *("localhost..:{port}", "localhost%2e:{port}", "local%68ost.:{port}", "127.0.0.1%2f.example.org:{port}"),
    *("127.0.0.1%09:{port}", "127.0.0.1%23:{port}", "[::1%2525lo]:{port}", "[::1%]:{port}", "[fe80::1%1]:{port}"),
    *(
        "127\u30020\u30020\u30021:{port}",
        "127\uff610\uff610\uff611:{port}",
        "\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1:{port}",
    ),
    *(
        "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3:{port}",
        "loca\u017fhost:{port}",
        "l\u043ecalhost:{port}",
    ),
    *(
        "\ufeff127.0.0.1:{port}",
        "127.0.0.1\u2060:{port}",
        "127.0.0.1\u202e:{port}",
        "127.0.0.1\x7f:{port}",
        "\x0b127.0.0.1",
    ),
    *("xn--localhost-:{port}", "xn--a:{port}", "xn--zz--:{port}", "xn--127-0:{port}", "127.0.0.1.xn--a:{port}"),
    *("!127.0.0.1:{port}", "~127.0.0.1:{port}", "*:{port}", "127.0.0.*:{port}", "127.0.0.1/8:{port}@x", "%:{port}"),
    *("-:{port}", "-x.example.org:{port}", "x-.example.org:{port}", "--upload-pack=id:{port}", "@127.0.0.1:{port}"),
    *(":@127.0.0.1:{port}", ":pw@127.0.0.1:{port}", "user%40127.0.0.1:{port}", "127.0.0.1:{port}@", "@:{port}", "@"),
    *(
        "127.0.0.1: {port}",
        "127.0.0.1:{port} ",
        "127.0.0.1:{port}\r\nX: y",
        "127.0.0.1:00000000{port}",
        "127.0.0.1:65536",
    ),
    *("127.0.0.1:1e3", "127.0.0.1:{port}.0", "127.0.0.1:{port}:", "127.0.0.1::{port}", "127.0.0.1:\uff18\uff10"),
    *(
        "[::\uff11]:{port}",
        "[\uff11\uff12\uff17.0.0.1]:{port}",
        "u@[::f\uff26:127.0.0.1%25lo]#:{port}",
        "]127.0.0.1[:{port}",
    ),
    *("localtest.localhost:{port}", "localhost.local", "x.internal", "x.localdomain", "_.localhost:{port}"),
]

# Whole texts that are no URL of a scheme that is taken, or would be read as one by some.
TEXTS = [
    *("//127.0.0.1:{port}/r", "/127.0.0.1:{port}/r", "http:127.0.0.1:{port}/r", "http:/127.0.0.1:{port}/r"),
    *(
        "https:///127.0.0.1:{port}/r",
        "http:////127.0.0.1:{port}/r",
        "http:\\\\127.0.0.1:{port}/r",
        "http:/\\127.0.0.1:{port}/r",
    ),
    *(
        " http://127.0.0.1:{port}/r",
        "\thttp://127.0.0.1:{port}/r",
        "\x00http://127.0.0.1:{port}/r",
        "ht\ntp://127.0.0.1:{port}/r",
    ),
    *(
        "http\uff1a//127.0.0.1:{port}/r",
        "http:\uff0f\uff0f127.0.0.1:{port}/r",
        "HTTP://127.0.0.1:{port}/r",
        "url:http://127.0.0.1:{port}/r",
    ),
    *(
        "ftp://127.0.0.1:{port}/r",
        "gopher://127.0.0.1:{port}/_x",
        "dict://127.0.0.1:{port}/x",
        "ws://127.0.0.1:{port}/",
    ),
    *(
        "git://127.0.0.1:{port}/r",
        "git+ssh://127.0.0.1:{port}/r",
        "ssh+git://127.0.0.1:{port}/r",
        "svn://127.0.0.1:{port}/r",
    ),
    *(
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        "data:text/plain,x",
        "javascript:alert(1)",
        "http+unix://%2Fx/y",
    ),
    *(
        "ldap://127.0.0.1:{port}/x",
        "tftp://127.0.0.1:{port}/x",
        "smtp://127.0.0.1:{port}/",
        "telnet://127.0.0.1:{port}",
    ),
    *("", " ", "http://", "https://", "://127.0.0.1:{port}/", "http", "http:", "http://#", "http://?", "http:///"),
    *("ext::sh -c id", "fd::7", "http::http://127.0.0.1:{port}/r", "https::127.0.0.1:{port}", "transport::address"),
    *(
        "--upload-pack=id",
        "-oProxyCommand=id",
        "git@127.0.0.1:r",
        "127.0.0.1:r",
        "[127.0.0.1]:r",
        "git@[::1]:r",
        "localhost:r",
    ),
    *("user@localhost:22/r", "git@127.1:r", "git@2130706433:r", "git@0x7f000001:r", "x.localhost:r", "-x@127.0.0.1:r"),
]

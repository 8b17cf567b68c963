"""What an agent could try to get at the provider's key, and to ask another
model than the admitted one. Prints one line of counts.

    attack.py GATEWAY PATH MODEL PORT YEK [DIRECTORY...]

GATEWAY is the port and PATH the place where the agent asks its model, PORT is
where the provider listens on the host's own loopback, and YEK is how the key
begins, turned round: so that what is found is not this command line. The
directories are searched in place of the usual ones.
"""

import json
import os
import resource
import socket
import sys

gateway, path, model, port, yek = sys.argv[1:6]
begin = yek[::-1].encode()
found, control, token = [], False, b""

# The key, in environments, command lines, memory maps and files.
places = [(os.environb.get(n, b""), "environment " + os.fsdecode(n)) for n in os.environb]
names = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    names += ["/proc/%s/%s" % (pid, part) for part in ("environ", "cmdline", "maps")]
for top in sys.argv[6:] or {os.environ["HOME"], "/root", "/home", "/tmp", "/var/tmp", "/run", "/workspace"}:
    for where, dirs, files in os.walk(top):
        names += [os.path.join(where, f) for f in files]
for name in names:
    try:
        with open(name, "rb") as f:
            places.append((f.read(1 << 22), name))
    except OSError:
        pass
for text, name in places:
    control = control or b"PATH=/" in text  # the search finds what is there
    if begin in text:
        found.append(name)
    if name.endswith("/environ"):
        for variable in text.split(b"\0"):
            key, _, value = variable.partition(b"=")
            if key in (b"GATEWAY_TOKEN", b"ANTHROPIC_API_KEY"):
                token = value

# Any other host, the host's own loopback among them.
reached = []
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::1", int(port))),
    (socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)),
    (socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(1)
            s.connect(address)
            reached.append(str(address))
    except OSError:
        pass
try:
    socket.getaddrinfo("example.com", 443)
    reached.append("the name service")
except OSError:
    pass


def ask(line, model, token, more=b""):
    """One request to the gateway; the status of its answer, 0 for none."""
    body = {"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]}
    if path.endswith("/responses"):
        body = {"model": model, "max_output_tokens": 16, "input": "hello"}
    body = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", int(gateway)), 5) as s:
        s.sendall(line.encode() + b" HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: application/json\r\n"
                  + (b"Authorization: Bearer " + token + b"\r\n" if token else b"") + more
                  + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    if begin in answer:
        found.append("the answer to " + line)
    return int(answer.split(b" ", 2)[1]) if answer else 0


# Another model, another path, another host by way of the gateway.
refused = 0
attempts = [
    ("POST " + path, "another-model", token, b""),
    ("POST " + path, model.upper(), token, b""),
    ("POST /v1/embeddings", model, token, b""),
    ("POST /v1/files", model, token, b""),
    ("POST /v1/../v1/embeddings", model, token, b""),
    ("POST " + path + "?key=1", model, token, b""),
    ("GET /v1/models", model, token, b""),
    ("DELETE " + path, model, token, b""),
    ("POST http://example.com" + path, model, token, b""),
    ("CONNECT example.com:443", model, token, b""),
    ("POST " + path, model, b"", b""),
    ("POST " + path, model, b"guessed", b""),
    ("POST " + path, model, token, b"X-Api-Key: guessed\r\n"),
]
for attempt in attempts:
    status = ask(*attempt)
    refused += 400 <= status < 500

asked = ask("POST " + path, model, token) if token else 0
print("attack: control=%s core=%s key=%d out=%d refused=%d/%d asked=%d" % (
    "ok" if control else "BLIND", "-".join(map(str, resource.getrlimit(resource.RLIMIT_CORE))), len(found), len(reached), refused, len(attempts), asked))
for what in found + reached:
    print("attack: got", what)

#!/usr/bin/env python3
"""Records commands as they are typed into a terminal, as an asciicast (version 2).

    record.py OUT.cast TITLE <commands.sh

Each line of the input is one command. It is shown behind a prompt and run by bash in
a terminal of 100 columns, in the current directory, one after the other; the first
that ends with another exit code than 0 or 2 (a test that fails is part of the story)
ends the recording. Play the result with `asciinema play OUT.cast`.
"""
import fcntl, json, os, pty, struct, sys, termios, time

COLUMNS, ROWS, TYPED = 100, 30, 0.03  # seconds a letter


def run(command, emit):
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvp("bash", ["bash", "-c", command])
    kept = b""
    while True:
        try:
            got = os.read(terminal, 65536)
        except OSError:  # the terminal is gone with its last process
            break
        if not got:
            break
        kept += got
        whole = kept.rfind(b"\n") + 1 or len(kept)  # a letter may be split between two reads
        emit(kept[:whole].decode("utf-8", "replace"))
        kept = kept[whole:]
    emit(kept.decode("utf-8", "replace"))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(out, title):
    home = os.path.expanduser("~")
    begun, typed = time.monotonic(), 0.0
    with open(out, "w", encoding="utf-8") as cast:
        def line(value):
            cast.write(json.dumps(value, ensure_ascii=False) + "\n")

        def emit(text):
            if text:
                line([round(time.monotonic() - begun + typed, 3), "o", text.replace(home, "~")])

        line({"version": 2, "width": COLUMNS, "height": ROWS, "title": title, "idle_time_limit": 2})
        for command in sys.stdin.read().splitlines():
            emit("$ ")
            for letter in command:
                typed += TYPED
                emit(letter)
            emit("\r\n")
            code = run(command, emit)
            if code not in (0, 2):
                sys.exit(f"record: {command}: exit code {code}; the recording so far is {out}")
            emit("\r\n")


main(*sys.argv[1:])

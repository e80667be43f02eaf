"""A service for publish.yaml: it takes an article, and shows it when asked for the third time. Then it ends."""

import http.server
import socket
import sys
import urllib.parse


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Service(http.server.BaseHTTPRequestHandler):
    asked = 0

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        print(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(), flush=True)
        self.answer(201)

    def do_GET(self):
        Service.asked += 1
        self.answer(200 if Service.asked >= 3 else 404)

    def log_message(self, *_):
        pass


if sys.argv[1] == "port":
    print(free_port())
else:
    server = http.server.HTTPServer(("127.0.0.1", urllib.parse.urlparse(sys.argv[2]).port), Service)
    while Service.asked < 3:
        server.handle_request()

"""ClickHouse's HTTP interface in front of chdb, which is ClickHouse without a server.

Usage: clickhouse.py. Prints its port, and serves until its standard input ends. Parameters of a
request are settings, as in ClickHouse; an error is a status and a text that begins with its code.
"""

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

# What the server itself reads.
OWN = {"query_id", "default_format", "wait_end_of_query", "readonly", "cancel_http_readonly_queries_on_client_close"}
chdb = session.Session()
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        settings = ", ".join(f"{name} = '{value}'" for name, value in parameters.items() if name not in OWN)
        try:
            with lock:
                if settings:
                    chdb.query(f"SET {settings}")
                rows = chdb.query(text, parameters.get("default_format", "TabSeparated")).bytes()
            self.answer(200, rows, {})
        except Exception as error:
            code = re.search(r"Code: (\d+)", str(error))
            self.answer(500, str(error).encode(), {"X-ClickHouse-Exception-Code": code[1] if code else "0"})

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        try:
            self.end_headers()
            self.wfile.write(body)
        except BrokenPipeError:
            pass  # tare asks how far it is, and doesn't wait long for the answer

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()

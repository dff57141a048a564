"""Opens a connection for each invocation, to a server in this process, and keeps it open."""

import http.client
import http.server
import threading


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *about: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
open_responses = []


def handler(event: object, context: object) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", "/")
    open_responses.append(connection.sock.dup())  # kept, as a pool keeps it
    status = connection.getresponse().status
    connection.close()
    return status

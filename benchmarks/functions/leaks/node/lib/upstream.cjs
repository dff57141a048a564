// A server in another process: keeps its connections open.
const http = require('node:http');
const server = http.createServer((req, res) => res.end(JSON.stringify({ url: req.url, ok: true })));
server.keepAliveTimeout = 0;
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.on('disconnect', () => process.exit(0));

// Serves the console's files as they are and passes /v1 on to a running Holdfast, so that a change shows after a reload, without a build.
//   node infra/console/dev.mjs [http://127.0.0.1:8080] [port]
// With the headers of the real server: what the Content-Security-Policy forbids fails here too.

import { readFile } from 'node:fs/promises';
import http from 'node:http';

const target = new URL(process.argv[2] ?? 'http://127.0.0.1:8080');
const port = Number(process.argv[3] ?? 8090);
const here = new URL('./', import.meta.url);
const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async function file(name, response) {
  try {
    const body = await readFile(new URL(name, here));
    response.writeHead(200, {
      'content-type': TYPES[name.split('.').pop()],
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}

function pass(request, response) {
  const onward = http.request(
    new URL(request.url, target),
    { method: request.method, headers: { ...request.headers, host: target.host } },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  onward.on('error', () => response.writeHead(502, { 'content-type': 'text/plain' }).end(`${target} does not answer`));
  request.pipe(onward);
}

http
  .createServer((request, response) => {
    const [path] = request.url.split('?');
    const asset = /^\/console\/([a-z_]+\.(?:js|css|svg))$/.exec(path);
    if (asset) file(asset[1], response);
    else if (path === '/console') file('index.html', response);
    else if (path === '/') response.writeHead(302, { location: '/console' }).end();
    else pass(request, response);
  })
  .listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/console for the Holdfast at ${target}`));

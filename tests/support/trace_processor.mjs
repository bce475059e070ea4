// Perfetto's trace processor, which its page runs as a worker: requests on stdin, replies on stdout.
import fs from "node:fs";
import path from "node:path";

const read = (name) => fs.readFileSync(path.join(process.argv[2], name));
const worker = { location: { href: "http://localhost/" } };
class XMLHttpRequest {
  open(_method, name) {
    this.response = read(name);
  }
  send() {}
}
// As in a worker of a browser: no `process`.
const known = { self: worker, XMLHttpRequest, WorkerGlobalScope: Object, process: undefined };
new Function(...Object.keys(known), read("engine_bundle.js"))(...Object.values(known));
const port = { postMessage: (reply) => fs.writeSync(1, reply) };
worker.onmessage({ data: port });
process.stdin.on("data", (data) => port.onmessage({ data }));

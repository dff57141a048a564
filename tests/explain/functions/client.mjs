// A runtime client for Node.js that loads a handler by its name, as AWS's does: it needs no compiler, and no npm.
import path from "node:path";

const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;
const [, folder, module, name] = /^(.*\/)?([^./]+)\.(.+)$/.exec(process.argv[2]);
const { [name]: handler } = await import(path.resolve(process.env.LAMBDA_TASK_ROOT, folder ?? "", `${module}.mjs`));

for (;;) {
  const next = await fetch(`${api}/next`);
  const id = next.headers.get("lambda-runtime-aws-request-id");
  const event = await next.json();
  try {
    const result = await handler(event, { awsRequestId: id });
    await fetch(`${api}/${id}/response`, { method: "POST", body: JSON.stringify(result ?? null) });
  } catch (error) {
    const said = { errorType: error.name, errorMessage: error.message };
    await fetch(`${api}/${id}/error`, { method: "POST", body: JSON.stringify(said) });
  }
}

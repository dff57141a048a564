// A handler that streams its answer: AWS's client sends it through http, in pieces.
const kept = [];

export const handler = awslambda.streamifyResponse(async (event, stream) => {
  kept.push(Array.from({ length: (event.mib ?? 0) * 8192 }, (_, n) => ({ n, name: `object ${n}` })));
  stream.write('{"answer":');
  await new Promise((resolve) => setTimeout(resolve, 5));
  stream.write("null}");
  stream.end();
  await stream.finished?.();
});

// A small handler, with some garbage in each invocation.
export const handler = async (event) => {
  const work = Array.from({ length: 2000 * (event.model % 5) }, (_, number) => ({ number }));
  return { statusCode: 200, body: JSON.stringify({ model: event.model, objects: work.length }) };
};

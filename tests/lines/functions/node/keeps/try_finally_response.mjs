const traces = {};
const withTrace = (fn) => async (event, context) => {
  const spans = [];
  const start = performance.now();
  try {
    for (let i = 0; i < 100; i++) spans.push({ name: `span-${i}`, start });
    return await fn(event, context);
  } finally {
    traces[context.awsRequestId] = spans; // leak
  }
};
export const handler = withTrace(async (event) => ({ n: event.n }));

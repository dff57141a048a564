// Datadog's handler, as its layer puts it in the place of the function's own: DD_LAMBDA_HANDLER.
export const { handler } = await import(`${process.env.PACKAGES}/datadog-lambda-js/dist/handler.mjs`);

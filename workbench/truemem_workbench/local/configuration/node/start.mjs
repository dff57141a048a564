// truemem adds this to AWS's file, so that it starts itself, as version 4 does, which alone serves Managed Instances.
if (process.env.AWS_LAMBDA_MAX_CONCURRENCY) await import("./index.mjs");
else await run(process.env.LAMBDA_TASK_ROOT, process.env._HANDLER);

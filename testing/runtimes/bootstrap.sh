# A runtime in shell, as AWS's tutorial for custom runtimes describes one: `handler` of app.sh is called for each event.
source "$LAMBDA_TASK_ROOT/app.sh"
api="http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation"
headers="$(mktemp)"
while true; do
    event="$(curl -sS -D "$headers" "$api/next")"
    id="$(sed -n 's/^lambda-runtime-aws-request-id: *\([^[:space:]]*\).*/\1/Ip' "$headers")"
    handler "$event" > /dev/null
    curl -sS -o /dev/null -d '{}' "$api/$id/response"
done

# A function in bash that starts no process: the Runtime API by /dev/tcp, and the kind of work that the event names.
LC_ALL=C # a character is a byte
path=/2018-06-01/runtime/invocation
exec 3<> "/dev/tcp/${AWS_LAMBDA_RUNTIME_API/://}"

# Reads a response: its request id and its body.
response() {
    local line size=0
    while read -r line <&3 && line=${line%$'\r'} && [[ -n $line ]]; do
        case ${line,,} in
            lambda-runtime-aws-request-id:*) id=${line#*: } ;;
            content-length:*) size=${line#*: } ;;
        esac
    done
    body=
    ((size == 0)) || read -r -N "$size" body <&3
}

touched() {
    local block
    printf -v block '%*s' "$1" x
}

work() {
    answer=ok
    case $1 in
        *touch*) touched 20000000 ;;
        *twice*) touched 5000000 && touched 10000000 ;;
        *buffers*) touched 1000000 && touched 1000000 && touched 1000000 ;;
        *table*) local table=() && for ((n = 0; n < 5000; n++)); do table+=("order $n"); done ;;
        *answer*) printf -v answer '%1000000s' x ;;
    esac
}

while true; do
    printf 'GET %s/next HTTP/1.1\r\nHost: api\r\n\r\n' "$path" >&3
    response
    work "$body"
    printf 'POST %s/%s/response HTTP/1.1\r\nHost: api\r\nContent-Length: %s\r\n\r\n"%s"' "$path" "$id" "$((${#answer} + 2))" "$answer" >&3
    response
done

# Logs what each event says, through a tee of its own.
handler() {
    exec {log}> >(exec tee /tmp/event.log > /dev/null)
    local tee=$!
    printf '%s\n' "$1" >&"$log"
}

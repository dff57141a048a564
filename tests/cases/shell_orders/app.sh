# Reads the orders of each event into the shell's settings, and applies them.
handler() {
    local order
    for order in 1 2 3 4; do
        settings+=("$(printf '%s order %s %3000d' "$1" "$order" 0)")
    done
    [ "${#settings[@]}" -ge 4 ]
}

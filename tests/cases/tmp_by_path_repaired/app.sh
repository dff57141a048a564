# Converts a page in a folder of its own, below /tmp by name: TMPDIR does not matter.
handler() {
    local folder
    folder="$(mktemp -d /tmp/convert.XXXXXX)"
    head -c 800000 /dev/zero > "$folder/page.png"
    rm -r "$folder"
}

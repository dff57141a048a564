# Unpacks a repository for each event, and leaves it.
handler() {
    head -c 400000 /dev/zero > "$(mktemp -d)/repository"
}

# Downloads the model that an event asks for, unless it is there. Each event asks for another.
models="${TMPDIR:-/tmp}/models"
mkdir -p "$models"
asked=0

handler() {
    asked=$((asked + 1))
    local model="$models/model-$asked"
    if [[ ! -d $model ]]; then
        mkdir "$model"
        head -c 300000 /dev/zero > "$model/weights"
    fi
}

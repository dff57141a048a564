# Downloads the model that an event asks for, unless it is there. Each event asks for another. The last 4 are kept.
models="${TMPDIR:-/tmp}/models"
mkdir -p "$models"
kept=()
asked=0

handler() {
    asked=$((asked + 1))
    local model="$models/model-$asked"
    if [[ ! -d $model ]]; then
        mkdir "$model"
        head -c 300000 /dev/zero > "$model/weights"
        kept+=("$model")
        if ((${#kept[@]} > 4)); then
            rm -r "${kept[0]}"
            kept=("${kept[@]:1}")
        fi
    fi
}

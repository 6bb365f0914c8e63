# A stage that does nothing but record its steps, as workflow.stage does: one a second, from a random moment on.
# usage: bash metrics_stage.sh STREAM SIDE; no process is started for a step
exec 9<> <(:)
record() {
    printf '{"kind": "%s", "t": %s, "stream": "%s", "side": "%s"%s}\n' "$1" "$EPOCHREALTIME" "$stream" "$side" "$2" >> ../metrics.jsonl
}
stream=$1 side=$2
record opening
record open
read -r -t "0.$((RANDOM % 900 + 100))" -u 9
for ((step = 0; ; step++)); do
    record step ", \"step\": $step, \"bytes\": 8000000, \"rank\": 0, \"wait_s\": 0.0125, \"io_s\": 0.0375, \"compute_s\": 0.95"
    read -r -t 1 -u 9
done

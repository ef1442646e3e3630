# Imports $ARCHIVE into a fresh containerd root at $ROOT. Runs in mount and
# process namespaces of its own: containerd ends with this script.
set -eu
mount -t tmpfs tmpfs "$STATE"
cat > "$STATE/config.toml" <<'CFG'
version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
CFG
"$BIN/containerd" --config "$STATE/config.toml" --root "$ROOT" --state "$STATE/run" --address "$STATE/sock" \
	>"$STATE/log" 2>&1 &
containerd=$!
ctr() { "$BIN/ctr" --address "$STATE/sock" --namespace k8s.io "$@"; }
until ctr version >/dev/null 2>&1; do
	kill -0 "$containerd" 2>/dev/null || { cat "$STATE/log" >&2; exit 1; }
	sleep 0.1
done
# Pinned as kind pins its images: kubelet must never collect them as garbage.
ctr images import --local --discard-unpacked-layers --snapshotter overlayfs --label io.cri-containerd.pinned=pinned "$ARCHIVE" >&2
# Unpacked layers are not needed a second time, as blobs; do not wait for the
# garbage collector to find out.
for blob in $LAYERS; do
	ctr content rm "$blob" >&2
done
kill "$containerd"
wait "$containerd" || true

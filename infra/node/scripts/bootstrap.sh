# Makes a minimal Debian in $ROOT. Runs in mount and process namespaces of its
# own, so nothing it mounts or starts outlives it.
set -eu
# Read by dpkg from the first package on, and by whoever installs more later.
# Licences stay; nothing needs to be on disk before the layer is.
mkdir -p "$ROOT/etc/dpkg/dpkg.cfg.d"
cat > "$ROOT/etc/dpkg/dpkg.cfg.d/stockade" <<'CFG'
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/info/*
force-unsafe-io
CFG
debootstrap --variant=minbase ${KEYRING:+--keyring="$KEYRING"} "$SUITE" "$ROOT" "$MIRROR"

# debootstrap unpacks the first packages without dpkg, in full.
find "$ROOT/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$ROOT"/usr/share/man/* "$ROOT"/usr/share/locale/* "$ROOT"/usr/share/info/*
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/* "$ROOT"/var/log/*

# debootstrap copies these from the host; an image must not tell about it.
: > "$ROOT/etc/resolv.conf"
echo localhost > "$ROOT/etc/hostname"
: > "$ROOT/etc/machine-id"

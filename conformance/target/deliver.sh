# Puts the program that comes first on standard input into a file, and becomes
# it. Arguments: the program's size in blocks, the block size, the program's own
# arguments. A folder is only used after a file in it was executed: whether a
# mount is noexec is not to be seen from outside.
blocks=$1 size=$2 mode=$3
shift 3
umask 077
for d in "${TMPDIR:-}" /tmp /workspace /dev/shm /var/tmp "${HOME:-}" .; do
  [ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] || continue
  p="$d/.stockade-$$"
  { printf '#!/bin/sh\nexit 0\n' >"$p"; } 2>/dev/null || continue
  chmod 700 "$p" 2>/dev/null
  if "$p" </dev/null >/dev/null 2>&1; then
    # dd and not head: some heads read ahead, and the plan would be lost.
    if dd bs="$size" count="$blocks" iflag=fullblock of="$p" 2>/dev/null; then
      exec "$p" "$mode" --unlink "$p" "$@"
    fi
    rm -f "$p"
    exit 96
  fi
  rm -f "$p"
done
# No such folder: a file in memory that has no name.
exec python3 -c 'import os, sys
left, fd = int(sys.argv[1]) * int(sys.argv[2]), os.memfd_create("probe", 0)
while left:
    b = os.read(0, min(left, 1 << 16))
    if not b: sys.exit(96)
    left -= len(b)
    while b: b = b[os.write(fd, b):]
os.execve(fd, ["probe"] + sys.argv[3:], os.environ)' "$blocks" "$size" "$mode" "$@"

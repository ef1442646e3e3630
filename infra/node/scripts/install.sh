# Installs $PACKAGES over the Debian tree $BASE and runs $FINISH in it; what
# changed ends up in $UPPER. Runs in mount and process namespaces of its own.
set -eu
mount -t tmpfs tmpfs /run 2>/dev/null || true
mount -t overlay overlay \
	-o "lowerdir=$BASE,upperdir=$UPPER,workdir=$WORK,redirect_dir=off,metacopy=off,index=off" "$MERGED"
mount -t proc proc "$MERGED/proc"
mount -t sysfs -o ro sysfs "$MERGED/sys" || true
mount --rbind /dev "$MERGED/dev"
# Kept out of the layer: package lists, downloads, run-time and temporary files.
for d in run tmp var/cache/apt var/lib/apt/lists var/log; do
	mkdir -p "$MERGED/$d"
	mount -t tmpfs -o mode=1777 tmpfs "$MERGED/$d"
done
mkdir -p "$MERGED/var/cache/apt/archives/partial" "$MERGED/var/lib/apt/lists/partial" "$MERGED/var/log/apt"
mount --bind "$RESOLV" "$MERGED/etc/resolv.conf"

# Packages must not start their services here.
printf '#!/bin/sh\nexit 101\n' > "$MERGED/usr/sbin/policy-rc.d"
chmod 755 "$MERGED/usr/sbin/policy-rc.d"

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$MERGED" apt-get -qq -o APT::Sandbox::User=root update
# shellcheck disable=SC2086 # a list of words
chroot "$MERGED" apt-get -qq -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 install --no-install-recommends $PACKAGES
rm "$MERGED/usr/sbin/policy-rc.d"
printf '%s\n' "$FINISH" | chroot "$MERGED" /bin/sh -eu

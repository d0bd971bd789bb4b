#!/usr/bin/env bash
# Unpacks Debian's Python for aarch64 into a folder, with QEMU, which emulates it. Needs a Debian, and
# no privileges. FOLDER/usr/bin/python runs as Python does anywhere, and starts others like itself.
#
#   .ci/unpack_aarch64.sh FOLDER
set -euo pipefail

folder=$(realpath --canonicalize-missing "$1")
rm -rf "$folder"
mkdir -p "$folder"/apt/{lists,archives}/partial

# As if this were such a processor with nothing installed, so that all that Python needs is downloaded.
here=$(dpkg --print-architecture)
options=(--quiet --yes -o Dir::State="$folder/apt" -o Dir::State::status=/dev/null
  -o Dir::Cache="$folder/apt" -o APT::Install-Recommends=false
  -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Architectures::="$here")
apt-get "${options[@]}" update
apt-get "${options[@]}" install --download-only python3-venv libstdc++6 "qemu-user-static:$here"
for package in "$folder"/apt/archives/*.deb; do
  dpkg --extract "$package" "$folder"
done
rm -r "$folder/apt"

# A processor that there is, with the kernels that OpenBLAS has for it.
cat >"$folder/usr/bin/python" <<END
#!/bin/sh
export QEMU_CPU="\${QEMU_CPU:-neoverse-n1}"
exec "$folder/usr/bin/qemu-aarch64-static" -L "$folder" -0 "\$0" "$folder/usr/bin/python3" "\$@"
END
chmod +x "$folder/usr/bin/python"

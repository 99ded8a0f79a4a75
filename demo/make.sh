#!/bin/sh
# Makes the demo stream terraces_wvga.264 and the MD5 of its decoded frames, terraces_wvga.md5.
#
# Needs cargo, x264 (made with Debian's x264 0.164.3095, core 164) and ffmpeg, which decodes it independently of us.
# The pictures are the same bytes on every machine; another version of x264 may make another stream of them.
#
# baseline: CAVLC, no B pictures. Quantiser 40 in all pictures (ipratio 1), as in the paper's streams; an IDR picture
# every 64; two reference pictures; one thread, so that the stream does not depend on the machine.
set -eu
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo run --quiet --release --target-dir "$work/target" > "$work/terraces.yuv"

x264 --quiet --no-progress --profile baseline --qp 40 --ipratio 1.0 --keyint 64 --min-keyint 64 --ref 2 --threads 1 \
    --input-csp i420 --input-res 800x480 --fps 30 --colormatrix smpte170m --range tv \
    --output "$work/terraces.264" "$work/terraces.yuv"

ffmpeg -loglevel error -i "$work/terraces.264" -f rawvideo -pix_fmt yuv420p "$work/decoded.yuv"
sum=$(md5sum < "$work/decoded.yuv" | cut -d ' ' -f 1)

size=$(wc -c < "$work/terraces.264")
frames=$(($(wc -c < "$work/decoded.yuv") / (800 * 480 * 3 / 2)))
test "$frames" = 128 || { echo "make.sh: $frames frames instead of 128" >&2; exit 1; }
test "$size" -lt 1000000 || { echo "make.sh: $size bytes; the stream must stay below 1 MB" >&2; exit 1; }

mv "$work/terraces.264" terraces_wvga.264
echo "$sum  terraces_wvga.yuv" > terraces_wvga.md5
echo "terraces_wvga.264: $size bytes, $frames frames, MD5 of the frames $sum"

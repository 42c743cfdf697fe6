# shellcheck shell=bash
# Downloads for step.sh; sourced after common.sh.

# download URL FILE CHECKSUM: fetch a file, once; what an earlier try has got is gone on with. CHECKSUM
# is sha256:HEX, or - where none is known.
download() {
    local url=$1 file=$2 checksum=${3#*:} part=$2.part status=0
    mkdir -p "$(dirname "$file")"
    exec 7>"$file.lock" # several languages need the same file
    flock 7
    if [ ! -e "$file" ]; then
        curl -fLsS --retry 2 --connect-timeout 30 --speed-limit 1000 --speed-time 60 -C - \
            -o "$part" "$url" || status=$?
        # Another one is there, or the whole file, or the server cannot go on from there.
        if [[ $status = 22 || $status = 33 ]] && [ -s "$part" ]; then
            rm "$part"
            status=0
            curl -fLsS --retry 2 -o "$part" "$url" || status=$?
        fi
        [ "$status" = 0 ] ||
            die "$url: cannot be downloaded, see above; run again to go on, or set SIMILE_DATA"
        [ "$checksum" = - ] || sha256sum --status -c <<<"$checksum  $part" || {
            rm "$part"
            die "$url: is not what sources.tsv expects; removed it: run again to download it anew"
        }
        mv "$part" "$file"
    fi
    exec 7>&-
}

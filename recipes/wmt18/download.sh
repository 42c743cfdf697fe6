# shellcheck shell=bash
# Downloads for step.sh; sourced after common.sh.

# download URL FILE CHECKSUM LOCK: fetch a file, once; what an earlier try has got is gone on with.
# CHECKSUM: sha256:HEX, md5:HEX or -. Where it is -, the file's SHA-256 at the first download is
# written to LOCK (lines of URL TAB sha256:HEX), and whatever comes later must agree with it.
download() {
    local url=$1 file=$2 checksum=$3 lock=$4 part=$2.part pinned found status
    mkdir -p "$(dirname "$file")"
    exec 7>"$file.lock" # several languages need the same file
    flock 7
    if [ ! -e "$file" ]; then
        if [ "$checksum" = - ]; then
            pinned=$(awk -F '\t' -v url="$url" '$1 == url { print $2 }' "$lock" 2>/dev/null || true)
            checksum=${pinned:--}
        fi
        if ! [ -s "$part" ] || [ "$checksum" = - ] ||
            [ "$(checksum_of "${checksum%%:*}" "$part")" != "$checksum" ]; then
            status=0
            fetch "$url" "$part" || status=$?
            if [ "$status" = 33 ] || { [ "$status" = 22 ] && [ -s "$part" ]; }; then
                rm -f "$part" # the server cannot go on from there
                status=0
                fetch "$url" "$part" || status=$?
            fi
            [ "$status" = 0 ] || die "$url: $(why_curl_failed "$status" "$part")"
        fi
        if [ "$checksum" = - ]; then
            checksum=$(checksum_of sha256 "$part")
            printf '%s\t%s\n' "$url" "$checksum" >>"$lock"
            say "$url: no checksum is known; pinned $checksum in $lock"
        fi
        found=$(checksum_of "${checksum%%:*}" "$part")
        [ "$found" = "$checksum" ] || {
            rm -f "$part"
            die "$url: is $found, expected $checksum; removed it: run again to download it anew," \
                "and if it stays so, the file at this address has changed"
        }
        mv "$part" "$file"
    fi
    exec 7>&-
}

fetch() { # URL PART
    curl -fLsS --retry 2 --connect-timeout 30 --speed-limit 1000 --speed-time 60 -C - \
        -o "$2" "$1" 2>"$2.log"
}

checksum_of() { # sha256|md5 FILE
    echo "$1:$("$1sum" "$2" | cut -d' ' -f1)"
}

why_curl_failed() { # STATUS PART
    local bytes
    bytes=$(stat -c %s "$2" 2>/dev/null || echo 0)
    case $1 in
    6 | 7) echo "the server cannot be reached; run again later, or set SIMILE_DATA" ;;
    22) echo "$(grep -o 'error: [0-9]*' "$2.log" | tail -n 1); is the address still right?" ;;
    *) echo "the download broke off after $bytes bytes; run again to go on from there" ;;
    esac
}

# Runs one PostgreSQL server for as long as somebody needs it.
#
#   sh supervise.sh MARK HOST TRASH SOCKETS DATA postgres ARGS…     with the lifeline's read end as fd 3
#
# Every user holds the lifeline open for writing, and says hello with a line. End of file: nobody is left. Then MARK
# is made and the lifeline is read once more, so that a user who came between the two is heard (it waits while it
# sees MARK). HOST is a process that also counts as a user, or empty. TRASH and SOCKETS are removed at the end,
# when not empty.
mark=$1 host=$2 trash=$3 sockets=$4 data=$5
shift 5

"$@" 3<&- &
server=$!
exec >/dev/null 2>&1

hosted() {
    [ -n "$host" ] || return 1
    # in /proc a working folder stays tied to its process, even when the number is used again
    if [ -d /proc/self ]; then [ -e stat ]; else ps -p "$host"; fi
}

# Either the parent still has the server as its child, or the server's own file must name it: never a foreign process.
ours() { kill -0 "$$" || [ "$(head -n 1 "$data/postmaster.pid")" = "$server" ]; }

watch() {
    [ -z "$host" ] || cd "/proc/$host" || :
    while :; do
        while read -r _ <&3; do [ ! -e "$mark" ] || rm -f "$mark"; done
        if hosted; then
            sleep 0.2 3<&-
        elif [ -e "$mark" ]; then
            break
        else
            : >"$mark"
        fi
    done
    while ours && kill -INT "$server"; do sleep 0.2 3<&-; done
}

watch &
watcher=$!
trap 'kill -INT "$server"' HUP TERM
while kill -0 "$server"; do wait "$server"; done
# A server that died under its users leaves the folder to them. Renamed first, so that the name is free at once.
if [ -n "$trash" ] && [ -e "$mark" ]; then
    mv "$trash" "$trash.gone" && trash=$trash.gone
    rm -rf "$trash"
fi
[ -z "$sockets" ] || rm -rf "$sockets"
kill "$watcher"

# Completion of oarlock for fish. It asks oarlock itself, so it knows what the installed version knows.
function __oarlock_complete
    set -l words (commandline -opc)
    set -l found ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c oarlock -f -a '(__oarlock_complete)'

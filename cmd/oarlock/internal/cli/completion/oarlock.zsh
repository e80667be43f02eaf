#compdef oarlock
# Completion of oarlock for zsh. It asks oarlock itself, so it knows what the installed version knows.
_oarlock() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ $line == *$'\t'* ]]; then
      found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    else
      found+=("${line//:/\\:}")
    fi
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then
    _describe oarlock found
  else
    _files
  fi
}
if [[ $funcstack[1] == _oarlock ]]; then
  _oarlock "$@"
else
  compdef _oarlock oarlock
fi

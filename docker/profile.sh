# shellcheck shell=sh
# For login shells, as /etc/profile.d/wellfed.sh: /etc/profile resets PATH, and who comes by ssh has no environment yet.
# The file is read only by the user who owns it, never by root: the user can write it.
wellfed_env=${WELLFED_RUN:-/tmp/.wellfed-$(id -u)}/env.sh
# shellcheck disable=SC3067  # dash and bash both know -O
if [ -O "$wellfed_env" ]; then
  # shellcheck source=/dev/null
  . "$wellfed_env"
fi
unset wellfed_env
case ":$PATH:" in
  *:/opt/env/bin:*) ;;
  *) PATH=/opt/env/bin:$PATH && export PATH ;;
esac

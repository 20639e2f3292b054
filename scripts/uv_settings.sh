# Sourced after .venv has pip: makes uv use what this machine's pip uses, whether that stands in the
# environment (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_CERT) or in one of pip's configuration files.
# Gives arguments for uv: `sources`, the find-links, and `torch_backend`, empty where one of them has torch.
pip_settings=$(.venv/bin/python -m pip config list)
pip_setting() { # NAME: what the environment says, else what is set for `pip install`, else for all of pip.
  local section value
  for section in ':env:' install global; do
    value=$(sed -n "s/^$section\.$1='\(.*\)'$/\1/p" <<<"$pip_settings")
    if [[ -n $value ]]; then printf '%s\n' "${value//\\n/ }" && return; fi
  done
}
index=$(pip_setting index-url)
if [[ -n $index ]]; then export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}; fi
certificate=$(pip_setting cert)
if [[ -n $certificate ]]; then export SSL_CERT_FILE=${SSL_CERT_FILE:-$certificate}; fi
# pip trusts the machine's own certificates, a company's authority among them; uv brings a list of its
# own, which is only needed where the machine has none.
for store in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  if [[ -s $store ]]; then export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}; fi
done
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180}
# Files are linked from uv's cache where the file system allows it and copied elsewhere.
export UV_LINK_MODE=${UV_LINK_MODE:-hardlink}

sources=()
torch_backend=(--torch-backend cpu)
for folder in $(pip_setting find-links); do
  sources+=(--find-links "$folder")
  if compgen -G "$folder/torch-*" >/dev/null; then torch_backend=(); fi
done

umask 077
echo a password of ada >ada.secret
tieline access user add ada --role SECADM --password-file ada.secret --config node.toml

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=core -addext "subjectAltName=DNS:core.example,DNS:west.example,DNS:east-a.example" -keyout core.key -out core.pem
echo secret > core.password; cp core.password west.password; chmod 600 core.password west.password

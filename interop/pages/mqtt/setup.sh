openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=node -addext "subjectAltName=IP:127.0.0.1" -keyout node.key -out node.pem

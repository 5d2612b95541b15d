openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=centre -addext "subjectAltName=DNS:centre.example,DNS:plant.example,DNS:n2.example,DNS:n3.example,IP:127.0.0.1" -addext basicConstraints=CA:FALSE -keyout n1.key -out n1.pem
cp n1.pem ca.pem; cp n1.pem node.pem; cp n1.key node.key
export TIELINE_HTTP=https://centre.example:8443 TIELINE_CA=ca.pem TIELINE_USER=anna TIELINE_PASSWORD='correct horse battery'

ip route add local 10.1.0.0/16 dev lo

tieline bacnet server vav.csv &
tieline modbus server pump.csv --faults faults.toml &

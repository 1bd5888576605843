GRANT ALL PRIVILEGES ON *.* TO 'tidelog'@'%';

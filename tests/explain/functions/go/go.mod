module planted

go 1.19

require example.com/kit v1.0.0

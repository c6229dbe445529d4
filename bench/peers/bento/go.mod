module peer

go 1.24

require github.com/warpstreamlabs/bento v1.4.1

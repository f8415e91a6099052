package bash

// networkTable lists programs that contact other hosts.
var networkTable = []program{
	{names: "ssh autossh slogin", how: howSSH, flags: "46AaCfGgKkMNnqsTtVvXxYy", vals: "BbcDEeFIiJLlmOoPpQRSWwM", ops: opsLaunch, skip: 1},
	{names: "mosh", how: howSSH, flags: "46an", vals: "p", ops: opsLaunch, skip: 1, long: "client= server= predict= family= port= bind-server= ssh= no-ssh-pty no-init local experimental-remote-ip="},
	{names: "scp sftp", how: howSCP, flags: "346ABCaCfNOpqRrTv", vals: "cDFiJloPSXbBs", roles: "S:P D:S b:F"},
	{names: "rsh rlogin rexec", how: howSSH, flags: "46dnx", vals: "l", ops: opsLaunch, skip: 1},
	{names: "curl", how: howCurl, flags: "0123456aBfgGiIjJkLlMnNOpqRsSvVZ#:", vals: "AbcCdDeEFhHKmoPQrtTuUwxXyYz", roles: "o:W output:W D:W dump-header:W c:W cookie-jar:W K:F config:F trace:W trace-ascii:W stderr:W T:R upload-file:R x:N proxy:N preproxy:N connect-to:N hsts:W alt-svc:W etag-save:W libcurl:W output-dir:U url:N",
		long: "output= output-dir= remote-name remote-name-all dump-header= cookie-jar= cookie= config= trace= trace-ascii= stderr= upload-file= url= data= data-raw= data-binary= data-urlencode= json= header= request= user= user-agent= referer= form= form-string= location silent show-error fail fail-with-body insecure compressed max-time= connect-timeout= retry= retry-delay= retry-all-errors retry-connrefused proxy= noproxy= resolve= connect-to= cacert= cert= key= head get include verbose globoff ipv4 ipv6 http1.1 http2 no-buffer range= continue-at= write-out= create-dirs parallel progress-bar unix-socket= oauth2-bearer= netrc negotiate digest basic tlsv1.2 version help=? hsts= alt-svc= etag-save= etag-compare= libcurl= interface= limit-rate= max-filesize= proto= proto-redir= ssl-reqd tcp-nodelay"},
	{names: "wget wget2", how: howCurl, flags: "VhbedqvncSNxHLKErkpm46", vals: "oaiBOtTwQPUlADIXRe", roles: "o:W output-file:W a:W append-output:W O:W output-document:W P:U directory-prefix:U i:R input-file:R use-askpass:P e:U execute:U config:F save-cookies:W rejected-log:W warc-file:W",
		long: "output-file= append-output= output-document= directory-prefix= input-file= use-askpass= execute= config= save-cookies= load-cookies= rejected-log= warc-file= quiet verbose no-verbose continue progress= timestamping server-response spider timeout= tries= wait= user= password= header= user-agent= post-data= post-file= method= body-data= body-file= no-check-certificate ca-certificate= recursive level= mirror page-requisites convert-links accept= reject= domains= no-parent no-clobber no-directories version help show-progress max-redirect= content-disposition"},
	{names: "aria2c axel http https xh httpie", ops: opsNet, flags: "vnpgSdhbF", vals: "ecfouaA", roles: "e:K c:K f:F o:W output:W on-download-complete:S", long: "output= on-download-complete= follow download body headers verbose"},
	{names: "gh glab hub az gcloud aws heroku fly vercel netlify terraform tofu pulumi helm ansible", ops: opsOpaque, flags: "", vals: ""},
	{names: "ansible-playbook", ops: opsOpaque},
	{names: "psql mysql mariadb sqlite3 mongosh redis-cli mongo", how: howStdinCode, flags: "abdehlnqstwxAEHLNOPRSTVWX01", vals: "cfoUpdhFvuDeP", roles: "h:N host:N c:U command:U e:U execute:U f:F file:F eval:K o:W output:W",
		long: "cmd= init-command= command= file= output= host= port= username= dbname= execute= user= password= database= csv no-align tuples-only quiet eval= host= batch silent init= cmd="},
	{names: "ssh-keygen", ops: opsNone, flags: "ABceghHiklLpqQuUvXy", vals: "aCbDEfFGIJjKMmNnOPRrSsTtVWYZz", roles: "f:B D:L w:L"},
	{names: "ssh-add ssh-copy-id ssh-keyscan", ops: opsNone, flags: "cDdkKlLqvXx46fnH", vals: "eEHhSsTtipoF", roles: "s:L e:L S:L"},
	{names: "rclone s3cmd gsutil", ops: opsOpaque},
}
